"""Running graphs on an instance: opened, driven, resumed, forked, read."""
