"""What `hopscope report` prints about this study besides its claims."""
