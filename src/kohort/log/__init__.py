"""The log of a partition behind two Protocols, the catalog of what exists, and what all backends share."""
