"""The lab's commands, which the toolbox lists among its own. Each imports what it needs when it runs."""
