"""Pure arithmetic over published figures and prices; imports no Pulumi."""
