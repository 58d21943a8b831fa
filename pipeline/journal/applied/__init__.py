"""Who waits until a consumer of the journal has given transactions to its readers, and what each waits for."""
