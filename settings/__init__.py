"""What a stack file may say: typed, documented, the only reader of Pulumi configuration."""
