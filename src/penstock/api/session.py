"""``session``: who is asking, and what they may do."""

from penstock.api.call import Call
from penstock.api.documents.session import Right, SessionDocument
from penstock.api.operations import Resource, operation
from penstock.trust.principal import Principal
from penstock.trust.rights import Coverage
from penstock.trust.rules import TOPICLESS, Action


class Session(Resource):
    """Who is asking."""

    @operation("GET", "session", None)
    async def show(self, call: Call) -> SessionDocument:
        """Show who is asking, and which actions they may take.

        The console hides what is not allowed. Each request is judged all the same.
        """
        view, access, principal = self.parts.view, self.parts.access, call.principal
        return SessionDocument(
            user=principal.user,
            via=principal.via,
            roles=list(principal.roles),
            has_users=access is not None and not access.book.is_open,
            rights=[_right(principal, action) for action in Action],
            node=view.cluster().node_id,
            version=view.version,
            cookie=False,
            idle_s=None,
        )


def _right(principal: Principal, action: Action) -> Right:
    covered = principal.rights.coverage(action, b"#")
    topics = "" if action & TOPICLESS else covered.value
    return Right(action.word, covered is not Coverage.NONE, topics)
