"""An upgrade that one replica tries first: planned, started, judged, promoted or taken back."""
