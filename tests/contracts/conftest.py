"""What contract tests share: few sequences in reports, and pictures drawn and not written, for neither is looked at."""

from tests.pictures import drawn_once  # noqa: F401
from tests.small_runs import brief_reports  # noqa: F401
