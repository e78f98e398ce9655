"""What describes the API: the OpenAPI document, its examples, and the page made from them."""
