"""The model: encoders, relation-wise SAGE with Dr, LightGCN, losses and training."""
