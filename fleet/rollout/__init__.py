"""An upgrade that one replica tries first: the stack file's section `rollout`, from its first line to its last."""
