"""What every coordinator is made of: timers, purgatories, outcomes and log positions. No I/O, no groups."""
