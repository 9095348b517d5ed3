"""What `hopscope report` prints of this study beside its claims."""
