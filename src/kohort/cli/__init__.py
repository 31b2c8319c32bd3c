"""The command line. ``kohort serve`` starts without loading what the other commands need."""
