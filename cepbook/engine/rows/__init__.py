"""The row engine: every statement becomes generated Python functions. It defines the semantics."""
