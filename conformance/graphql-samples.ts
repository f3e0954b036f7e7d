// A table with a column of every kind of type. Row 4 has only nulls.
export const samples = `
  create type public.mood as enum ('sad', 'ok', 'happy');
  create table public.samples (
    id int primary key, small smallint, big bigint, exact numeric(30, 10), single real, double double precision,
    words text, short varchar(20), fixed char(4), tag name, flag boolean, key uuid, day date, clock time, zoned timetz,
    moment timestamp, instant timestamptz, mood public.mood, doc jsonb, plain json, address inet, search tsvector,
    numbers int[], labels text[], moods public.mood[], bigs bigint[], days date[], flags boolean[]
  );
  insert into public.samples values
    (1, 1, 9007199254740993, 1.5, 0.5, 0.25, 'Alpha', 'one', 'ab', 'x', true, '00000000-0000-4000-8000-000000000001',
     '2024-01-01', '10:00:00', '10:00:00+02', '2024-01-01T10:00:00', '2024-01-01T10:00:00Z', 'sad', '{"a": 1}', '[1]',
     '10.0.0.1', 'cat dog', '{1,2}', '{red,blue}', '{sad,ok}', '{9007199254740993}', '{2024-01-01}', '{true}'),
    (2, 2, 2, 12345678901234567890.1234567890, 1.5, 2.5, 'beta', 'two', 'cd', 'y', false, '00000000-0000-4000-8000-000000000002',
     '2024-02-01', '11:00:00', '11:00:00+02', '2024-02-01T10:00:00', '2024-02-01T10:00:00Z', 'ok', '{"a": 2}', '{}',
     '10.0.0.2', 'bird', '{2,3}', '{red}', '{happy}', '{2}', '{2024-02-01}', '{false}'),
    (3, 3, 3, 3, 3, 3, 'Al%pha_', 'three', 'ef', 'z', true, '00000000-0000-4000-8000-000000000003',
     '2024-03-01', '12:00:00', '12:00:00+02', '2024-03-01T10:00:00', '2024-03-01T10:00:00Z', 'happy', 'null', 'null',
     '10.0.0.3', 'fish', '{}', '{}', '{}', '{}', '{}', '{}');
  insert into public.samples (id) values (4);
`
