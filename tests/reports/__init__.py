"""What people reported of memory services, ours and others', one file a kind: each test is named by what a
user would see.
"""
