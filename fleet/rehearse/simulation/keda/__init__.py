"""KEDA's operator, played: the real definitions and the real HPA controller, and between them a stand-in for what KEDA does."""
