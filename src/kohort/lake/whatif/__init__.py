"""What if the group had had other settings? Its recorded history, replayed through our own coordinator.

``recording`` finds in the tables of a lake what happened to the processes of a group, ``replay`` lets the
same happen under other settings on virtual time, ``study`` runs settings and seeds on Spark, ``answer`` says
in words what came out.
"""
