"""A link in Django's admin to where the jobs are shown: `HEADWAY = {"ADMIN_LINK": "/work/"}`."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponseRedirect

from headway.contrib.django.application import the_app
from headway.contrib.django.models import Work


class WorkAdmin(admin.ModelAdmin):
    def has_add_permission(self, *_: Any) -> bool:
        return False

    def has_change_permission(self, *_: Any) -> bool:
        return False

    def has_delete_permission(self, *_: Any) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:  # noqa: ARG002
        return HttpResponseRedirect(str(the_app().admin_link))


if the_app().admin_link is not None:
    admin.site.register(Work, WorkAdmin)
