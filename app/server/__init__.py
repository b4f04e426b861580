"""The web application: Flask for pages and endpoints, Socket.IO for sessions, and access control for both."""
