"""Judging results of GPU tests that other programs wrote, by the rules of the stages gpu, p2p and resnet50."""
