"""Django's management commands of Headway."""
