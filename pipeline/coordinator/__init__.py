"""The WatermarkCoordinator's machine: one ordered stream out of the log and the chunks."""
