"""What follows from the settings of a stack, worked out once and handed to components and reports."""
