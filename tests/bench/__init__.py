"""Programs that measure; ``make bench`` runs them all and prints one table."""
