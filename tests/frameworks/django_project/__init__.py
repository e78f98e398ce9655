"""A Django project with Headway: its checks run in a process of their own for each store."""
