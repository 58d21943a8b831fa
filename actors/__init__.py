"""What touches the world: one file an actor, all of one shape, each driving a pure module of `pipeline`."""
