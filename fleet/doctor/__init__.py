"""What Google Cloud would say to a stack before it is brought up: the user's own gcloud is asked, and nothing is changed."""
