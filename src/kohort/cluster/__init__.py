"""Several nodes on one database, without I/O: who is alive, who leads what, who may answer (cluster 2)."""
