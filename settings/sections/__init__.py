"""What a stack file may say: one module per section, named as in the file."""
