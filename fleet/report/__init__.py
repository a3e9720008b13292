"""What every report is made of: words, tables, terminal pages, HTML pages and charts. It knows nothing of what is reported."""
