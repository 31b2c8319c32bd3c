"""``kohort serve``: one broker in the foreground. ``run`` loads no framework of the other commands."""
