"""Nothing is stored here: this model is the link in Django's admin, and the permission to follow it."""

from django.db import models


class Work(models.Model):
    class Meta:
        managed = False
        default_permissions = ("view",)
        verbose_name = verbose_name_plural = "work"
