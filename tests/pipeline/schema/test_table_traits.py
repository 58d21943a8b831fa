"""What the server says of a table and its log doesn't: at which places of the stream it holds."""

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid
from pipeline.schema.table_schema import TableId
from pipeline.schema.table_traits import Survey, Traits, initial_survey

SERVER = Tsid("3e11fa47-71ca-11e1-9e33-c80aa9429562")
T = TableId("d", "t")
PLAIN, OTHER = Traits("innodb"), Traits("myisam")


def upto(number: int) -> GtidSet:
    return GtidSet.parse(f"{SERVER}:1-{number}")


def place(number: int) -> Coordinates:
    return Coordinates("binlog.000001", 100 * number)


def altered(survey: Survey, number: int) -> Survey:
    return survey.mark_altered({T}, Gtid(SERVER, number))


def test_what_was_known_at_the_start_holds_once_all_of_it_has_passed() -> None:
    survey = initial_survey({T: PLAIN}, upto(5), None)
    assert survey.apply_answers(place(4), False) == (survey, frozenset())
    survey, new = survey.apply_answers(None, True)
    assert survey.holding == {T: PLAIN}
    assert new == {T}
    assert survey.apply_answers(None, True) == (survey, frozenset())


def test_it_holds_at_the_logs_end_where_statements_may_have_undone_each_other() -> None:
    """Between the server's two reports the table may have been another one, before and after its executed set."""
    survey = initial_survey({T: PLAIN}, upto(5), place(7))
    assert survey.apply_answers(place(6), True) == (survey, frozenset())
    assert survey.apply_answers(place(7), True)[0].holding == {T: PLAIN}
    assert altered(survey, 6).apply_answers(place(7), True)[1] == frozenset()


def test_a_statement_to_come_is_in_it_and_a_later_one_is_not() -> None:
    survey = altered(initial_survey({T: PLAIN}, upto(5), None), 4)
    assert not survey.wanted
    assert survey.apply_answers(None, True)[1] == {T}
    survey = altered(survey, 6)
    assert survey.wanted == {T: GtidSet().with_gtid(Gtid(SERVER, 6))}
    assert survey.apply_answers(None, True)[1] == frozenset()


def test_an_answer_holds_at_its_place_if_each_statement_before_is_in_it() -> None:
    survey, _ = initial_survey({T: PLAIN}, upto(5), None).apply_answers(None, True)
    survey = altered(altered(survey, 6), 7)
    assert T not in survey.holding
    assert survey.take_answer({T}, {T: OTHER}, upto(6), place(9)) == survey
    told = survey.take_answer({T}, {T: OTHER}, upto(7), place(9))
    assert not told.wanted
    assert told.apply_answers(place(8), True)[1] == frozenset()
    assert told.apply_answers(place(9), True)[0].holding == {T: OTHER}
    # One that comes before its place takes it away, unless it's in it.
    assert altered(told, 8).apply_answers(place(9), True)[1] == frozenset()
    assert T in altered(told, 8).wanted
    assert altered(told, 7).apply_answers(place(9), True)[1] == {T}


def test_nothing_is_known_of_a_table_that_is_gone() -> None:
    survey = altered(initial_survey({T: PLAIN}, upto(5), None).apply_answers(None, True)[0], 6)
    survey, new = survey.take_answer({T}, {}, upto(6), place(6)).apply_answers(place(6), True)
    assert (survey, new) == (Survey(), frozenset())


def test_the_last_answer_says_which_columns_may_be_stale_and_also_meanwhile() -> None:
    other = TableId("d", "other")
    stale = {T: Traits("innodb", stale=frozenset({"g"})), other: Traits("innodb", stale=frozenset({"h"}))}
    survey = initial_survey(stale, upto(5), None)
    assert survey.stale == {T: {"g"}, other: {"h"}}
    survey = altered(survey.apply_answers(None, True)[0], 6)
    assert survey.stale == {T: {"g"}, other: {"h"}}
    assert survey.take_answer({T}, {T: PLAIN}, upto(6), place(6)).stale == {other: {"h"}}
    assert survey.take_answer({T}, {}, upto(6), place(6)).stale == {other: {"h"}}
    named = {T: Traits("innodb", stale=frozenset({"i"}))}
    assert survey.take_answer({T}, named, upto(6), place(6)).stale == {T: {"i"}, other: {"h"}}
