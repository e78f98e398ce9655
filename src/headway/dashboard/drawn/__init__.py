"""Pictures made on the server: SVG with classes, coloured by the style sheets."""
