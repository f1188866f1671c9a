"""Addresses: DjangoBench's five views, and the pages of a social network."""

from django.urls import path

from social import pages, views

urlpatterns = [
    path("feed_timeline/<str:account>", views.feed_timeline),
    path("timeline/<str:account>", views.timeline),
    path("seen/<str:account>", views.seen),
    path("inbox/<str:account>", views.inbox),
    path("bundle_tray/<str:account>", views.bundle_tray),
    path("health", views.health),
    path("home/<str:account>", pages.home),
    path("wall/<str:account>", pages.wall),
    path("messages/<str:account>", pages.messages),
    path("members/<str:account>", pages.members),
    path("login/<str:account>", pages.login),
    path("post/<str:account>", pages.post),
    path("comment/<str:account>", pages.comment),
    path("like/<str:account>", pages.like),
    path("send/<str:account>", pages.send),
    path("befriend/<str:account>", pages.befriend),
]
