-- Who may see a changed row: the table's policies, evaluated on the row itself. A row that is gone, or was another
-- before, is judged as it was.

-- What policies say of a row for a role, as an expression on a relation that has the table's name; null where the role
-- may not use the table at all. With no search path, so that every name in it is whole.
create or replace function platform.policy_expression(rel oid, who name, command "char") returns text
language sql stable set search_path = ''
as $$
  with policy as (
    select p.polname as name, p.polpermissive as is_permissive,
           coalesce(pg_catalog.pg_get_expr(
             case when command = 'a' then coalesce(p.polwithcheck, p.polqual) else p.polqual end, p.polrelid), 'true') as expression
      from pg_catalog.pg_policy p
     where p.polrelid = rel and p.polcmd in (command, '*')
       and (0 = any (p.polroles) or exists (
         select from pg_catalog.unnest(p.polroles) r where pg_catalog.pg_has_role(who, r, 'usage')))
  )
  select case
      when not c.relrowsecurity then 'true'
      -- In the order in which Postgres asks them: one that raises is not always reached.
      else coalesce((
          select pg_catalog.string_agg('(' || p.expression || ') and ', '' order by p.name) from policy p where not p.is_permissive), '')
        || coalesce((
          select '(' || pg_catalog.string_agg('(' || p.expression || ')', ' or ' order by p.name desc) || ')'
            from policy p where p.is_permissive), 'false')
    end
    from pg_catalog.pg_class c
   where c.oid = rel and pg_catalog.has_schema_privilege(who, c.relnamespace, 'usage')
     and case when command = 'a' then pg_catalog.has_table_privilege(who, rel, 'insert')
              else pg_catalog.has_any_column_privilege(who, rel, 'select') end
$$;

-- A statement that is planned once in a session; the answer is how to run it.
create or replace function platform.prepare_judge(who text, shape text, body text) returns text
language plpgsql volatile
as $$
declare
  prepared constant text := 'plinth_judge_' operator(pg_catalog.||)
    pg_catalog.md5(who operator(pg_catalog.||) ' ' operator(pg_catalog.||) shape operator(pg_catalog.||) ' ' operator(pg_catalog.||) body);
begin
  if not exists (select from pg_catalog.pg_prepared_statements p where p.name operator(pg_catalog.=) prepared) then
    execute pg_catalog.format('prepare %I as %s', prepared, body);
  end if;
  return pg_catalog.format('execute %I', prepared);
end
$$;

-- The same rows with nothing in the columns that no policy speaks of: rows are read again for each of many claims. Columns
-- of domains stay, since some of them take no null.
create or replace function platform.slim_rows(rel oid, who text, shape text, relation text, alias text, row_sets text[]) returns text[]
language plpgsql volatile
as $$
declare
  needed text;
  run text;
  slim text[] := array[]::text[];
  rows text;
begin
  select pg_catalog.string_agg(
      case when t.typtype operator(pg_catalog.=) 'd' or exists (
             select from pg_catalog.pg_depend d join pg_catalog.pg_policy p on p.oid operator(pg_catalog.=) d.objid
              where d.classid operator(pg_catalog.=) 'pg_catalog.pg_policy'::pg_catalog.regclass
                and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
                and p.polrelid operator(pg_catalog.=) rel and d.refobjid operator(pg_catalog.=) rel
                and d.refobjsubid operator(pg_catalog.=) a.attnum)
           then pg_catalog.format('%I.%I', alias, a.attname) else 'null' end, ', ' order by a.attnum)
    into needed
    from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) a.atttypid
   where a.attrelid operator(pg_catalog.=) rel and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped;
  run := platform.prepare_judge(who, shape, pg_catalog.format(
    'select pg_catalog.array_agg(row(%s)::%s)::text from pg_catalog.unnest(pg_catalog.current_setting(''platform.rows'')::%2$s[]) as %I',
    needed, relation, alias));
  foreach rows in array row_sets loop
    if pg_catalog.starts_with(rows, '{') then
      perform pg_catalog.set_config('platform.rows', rows, true);
      execute run into rows;
    end if;
    slim := slim operator(pg_catalog.||) rows;
  end loop;
  return slim;
end
$$;

-- For each of many claims, a line of 1 and 0: which of its rows a caller with them may see. Each is a statement of its own
-- with its own claims, planned once for all; what one of them raises is its own.
-- row_sets are arrays of rows, or in JSON where the table had other columns then; set_of says which of them each claims
-- are about.
create or replace function platform.judge(
  rel oid, who text, command "char", claims text[], users text[], row_sets text[], set_of integer[], topic text
) returns table (place integer, verdict text, failure text)
language plpgsql volatile
as $$
declare
  expression text;
  relation record;
  prepared text[];
begin
  -- Not for callers of the data plane, who could have any statement run.
  if current_user <> session_user then
    raise insufficient_privilege using message = 'judge is for the platform';
  end if;
  expression := platform.policy_expression(rel, who, command);
  if expression is null then
    return;
  end if;
  -- A plan does not hear of another type of a column, nor of another table with the same name.
  select n.nspname, c.relname, rel operator(pg_catalog.||) ' ' operator(pg_catalog.||) (
      select pg_catalog.string_agg(a.atttypid operator(pg_catalog.||) ' ' operator(pg_catalog.||) a.atttypmod, ',' order by a.attnum)
        from pg_catalog.pg_attribute a where a.attrelid operator(pg_catalog.=) rel and a.attnum operator(pg_catalog.>) 0) as shape
    into relation
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace
   where c.oid operator(pg_catalog.=) rel;
  perform pg_catalog.set_config('role', who, true);
  prepared := array[
    platform.prepare_judge(who, relation.shape, pg_catalog.format(
      'select pg_catalog.string_agg(case when %s then ''1'' else ''0'' end, '''')
         from pg_catalog.unnest(pg_catalog.current_setting(''platform.rows'')::%I.%I[]) as %3$I',
      expression, relation.nspname, relation.relname)),
    platform.prepare_judge(who, relation.shape, pg_catalog.format(
      'select pg_catalog.string_agg(case when %s then ''1'' else ''0'' end, '''')
         from pg_catalog.json_populate_recordset(null::%I.%I, pg_catalog.current_setting(''platform.rows'')::pg_catalog.json) as %3$I',
      expression, relation.nspname, relation.relname))];
  -- A policy that takes the row as a whole has it as relation.*
  if (pg_catalog.cardinality(claims) operator(pg_catalog.>) (3 operator(pg_catalog.*) pg_catalog.cardinality(row_sets)))
     and (pg_catalog.strpos(expression, '.*') operator(pg_catalog.=) 0) then
    begin
      row_sets := platform.slim_rows(
        rel, who, relation.shape, pg_catalog.format('%I.%I', relation.nspname, relation.relname), relation.relname, row_sets);
    exception when others then
      null; -- Then with all that they hold.
    end;
  end if;
  for i in 1 .. pg_catalog.cardinality(claims) loop
    place := i;
    begin
      perform pg_catalog.set_config('role', who, true),
        pg_catalog.set_config('request.jwt.claims', claims[i], true),
        pg_catalog.set_config('request.user_id', users[i], true),
        pg_catalog.set_config('realtime.topic', topic, true),
        pg_catalog.set_config('platform.rows', row_sets[set_of[i]], true);
      execute prepared[case when pg_catalog.starts_with(row_sets[set_of[i]], '[') then 2 else 1 end] into verdict;
      failure := null;
    exception when others then
      verdict := null;
      failure := sqlstate;
    end;
    return next;
  end loop;
end
$$;

-- What has to be known of changed tables before a change of theirs is told.
create or replace function platform.changed_tables(rels oid[]) returns table (relid oid, facts json)
language sql stable set search_path = ''
as $$
  select c.oid, pg_catalog.json_build_object(
    'schema', n.nspname, 'name', c.relname, 'isSecured', c.relrowsecurity,
    'isPublic', coalesce(t.realtime_public, false), 'isCaptured', coalesce(t.cdc_enabled, true),
    'key', coalesce((
      select pg_catalog.json_agg(a.attname order by pg_catalog.array_position(i.indkey::pg_catalog.int2[], a.attnum))
        from pg_catalog.pg_index i join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = any (i.indkey)
       where i.indrelid = c.oid and i.indisprimary), '[]'),
    'columns', (
      select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
        'name', a.attname, 'type', pg_catalog.format_type(a.atttypid, null),
        -- bool, int8, int2, int4, text, varchar, uuid
        'isPlain', (y.typtype = 'e' or y.oid in (16, 20, 21, 23, 25, 1043, 2950))
          and not exists (select from pg_catalog.pg_collation l where l.oid = a.attcollation and not l.collisdeterministic),
        'anon', pg_catalog.has_column_privilege('anon', c.oid, a.attnum, 'select'),
        'authenticated', pg_catalog.has_column_privilege('authenticated', c.oid, a.attnum, 'select')) order by a.attnum), '[]')
        from pg_catalog.pg_attribute a join pg_catalog.pg_type y on y.oid = a.atttypid
       where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
    'anon', pg_catalog.has_schema_privilege('anon', n.oid, 'usage'),
    'authenticated', pg_catalog.has_schema_privilege('authenticated', n.oid, 'usage'))
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    left join platform.realtime_tables t on t.relid = c.oid
   where c.oid = any (rels)
$$;
