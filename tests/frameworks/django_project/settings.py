"""Settings of the project; the test names the database in the environment."""

import os

import django
import psycopg

_URL = os.environ["SHOP_DATABASE"]
if _URL.startswith("postgresql"):
    _parts = psycopg.conninfo.conninfo_to_dict(_URL)
    _DATABASE = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _parts["dbname"],
        "USER": _parts["user"],
        "PASSWORD": _parts.get("password", ""),
        "HOST": _parts.get("host", ""),
        "PORT": _parts.get("port", ""),
        "OPTIONS": {"application_name": "shop & co", "pool": False},
    }
else:
    _DATABASE = {"ENGINE": "django.db.backends.sqlite3", "NAME": _URL, "OPTIONS": {"timeout": 20}}

SECRET_KEY = "only for these tests"
USE_TZ = True
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}, "work": _DATABASE}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    *([] if django.VERSION >= (6,) else ["django_tasks"]),
    "headway.contrib.django",
    "tests.frameworks.django_project",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
MIGRATION_MODULES = dict.fromkeys(("admin", "auth", "contenttypes", "sessions"))  # their tables are made at once
ROOT_URLCONF = "tests.frameworks.django_project.urls"
HEADWAY = {
    "DATABASE": "work",
    "IMPORTS": ["tests.frameworks.django_project.more"],
    "ADMIN_LINK": "/work/",
    "pace": "1h",
    "idle_pace": "1h",
    "result_limit": 1000,
    "artifacts": os.environ["SHOP_ARTIFACTS"],
}
TASKS = {
    "default": {"BACKEND": "headway.contrib.django.HeadwayBackend", "QUEUES": ["default", "mail"]},
    "stubborn": {
        "BACKEND": "headway.contrib.django.HeadwayBackend",
        "QUEUES": [],
        "OPTIONS": {"max_attempts": 3, "backoff": ("1ms", "1ms"), "spill": True},
    },
    "once": {"BACKEND": "headway.contrib.django.HeadwayBackend", "QUEUES": [], "OPTIONS": {"unique_key": "only"}},
}
