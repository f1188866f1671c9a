"""Transcoding: ffmpeg scales and encodes clips, one process per CPU."""
