"""What contract tests share: few sequences in reports, and pictures drawn and not written, for neither is looked at."""

from tests.brief_reports import brief_reports  # noqa: F401
from tests.pictures import drawn_once  # noqa: F401
