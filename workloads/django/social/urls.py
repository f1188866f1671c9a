"""Addresses of the five views."""

from django.urls import path

from social import views

urlpatterns = [
    path("feed_timeline/<str:account>", views.feed_timeline),
    path("timeline/<str:account>", views.timeline),
    path("seen/<str:account>", views.seen),
    path("inbox/<str:account>", views.inbox),
    path("bundle_tray/<str:account>", views.bundle_tray),
    path("health", views.health),
]
