"""Workers over HTTP: who they are, their claims, and how their jobs end."""
