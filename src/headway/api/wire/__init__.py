"""What goes over the wire: bodies, problems, pages and cursors, the shapes of answers."""
