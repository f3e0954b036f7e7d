-- Who may see a changed row: the table's policies, evaluated on the row itself. A row that is gone, or was another
-- before, is judged as it was.

-- Whether the table has a row with the same key now that its reader may see; null for a table without a key. Equal is what the
-- index takes for equal.
create or replace function platform.key_expression(rel oid) returns text
language sql stable set search_path = ''
as $$
  select pg_catalog.format('exists (select from %s as %I where %s)', rel::pg_catalog.regclass, l.live,
      pg_catalog.string_agg(pg_catalog.format('%I.%I operator(%I.%s) %I.%I',
        l.live, a.attname, n.nspname, o.oprname, c.relname, a.attname), ' and '))
    from pg_catalog.pg_index i
    join pg_catalog.pg_class c on c.oid = i.indrelid
    -- Another name than the table's, which stands for the row that is judged.
    cross join lateral (select case c.relname when 'live' then 'present' else 'live' end) as l (live)
    cross join lateral rows from (pg_catalog.unnest(i.indkey::pg_catalog.int2[]), pg_catalog.unnest(i.indclass::pg_catalog.oid[])) as k (attnum, class)
    join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
    join pg_catalog.pg_opclass s on s.oid = k.class
    join pg_catalog.pg_amop m on m.amopfamily = s.opcfamily and m.amoplefttype = s.opcintype and m.amoprighttype = s.opcintype and m.amopstrategy = 3
    join pg_catalog.pg_operator o on o.oid = m.amopopr
    join pg_catalog.pg_namespace n on n.oid = o.oprnamespace
   where i.indrelid = rel and i.indisprimary
   group by l.live
$$;

-- What policies say of a row for a role, as an expression on a relation that has the table's name; null where the role
-- may not use the table at all. With no search path, so that every name in it is whole. By a command of k, a row of which only the
-- key is known is judged as it is now.
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
      when command = 'k' then platform.key_expression(rel)
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

-- The columns of a row for which generated ones have to be worked out, since none of them is stored; null where all are.
create or replace function platform.worked_out(rel oid) returns text
language sql stable set search_path = ''
as $$
  select pg_catalog.string_agg(
      case when a.attgenerated = 'v' then pg_catalog.format('(%s) as %I', pg_catalog.pg_get_expr(d.adbin, d.adrelid), a.attname)
           else pg_catalog.format('%I.%I', c.relname, a.attname) end, ', ' order by a.attnum)
    from pg_catalog.pg_class c join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_catalog.pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
   where c.oid = rel
  having pg_catalog.bool_or(a.attgenerated = 'v')
$$;

-- The rows that a set of them holds, given what names the set: an array of rows, or in JSON where the table had other columns then.
create or replace function platform.rows_in(rel oid, named text) returns text
language sql stable set search_path = ''
as $$
  select pg_catalog.format(
    'case when pg_catalog.starts_with(%2$s, ''['')
       then (select pg_catalog.array_agg(x.*) from pg_catalog.json_populate_recordset(null::%1$s, %2$s::pg_catalog.json) as x)
       else %2$s::%1$s[] end', rel::pg_catalog.regclass, named)
$$;

-- Rows in the place of the table that policies speak of.
create or replace function platform.judged_as(rel oid, rows text) returns text
language sql stable set search_path = ''
as $$
  select case when w.worked_out is null then pg_catalog.format('%s as %I', rows, c.relname)
              else pg_catalog.format('(select %1$s from %2$s as %3$I) as %3$I', w.worked_out, rows, c.relname) end
    from pg_catalog.pg_class c, platform.worked_out(rel) as w (worked_out)
   where c.oid = rel
$$;

-- A line of 1 and 0: for which of the rows the policies hold.
create or replace function platform.line_of(rel oid, expression text, named text) returns text
language sql stable set search_path = ''
as $$
  select pg_catalog.format('pg_catalog.array_to_string(array(select case when %s then ''1'' else ''0'' end from %s), '''')',
    expression, platform.judged_as(rel, pg_catalog.format('pg_catalog.unnest(%s)', named)))
$$;

-- A block that judges for many callers, run in their role. Its statements are planned once and rows are read once; each caller
-- has a turn of its own with its own claims, and what it raises is its own. The block takes what it needs from a cursor, which is
-- closed before anything of a tenant's runs, and leaves its verdicts in a setting. Columns may be called what its variables are.
create or replace function platform.judging_block(rel oid, who text, expression text) returns text
language sql stable set search_path = ''
as $$
  select pg_catalog.format($block$
#variable_conflict use_column
declare
  asked refcursor := 'plinth_asked';
  claims text[];
  users text[];
  row_sets text[];
  set_of integer[];
  topic text;
  done text;
  is_asked boolean := false;
  set_read integer := 0;
  lines %1$s[];
  line %1$s;
  verdict text;
  verdicts text[] := array[]::text[];
begin
  fetch asked into claims, users, row_sets, set_of, topic;
  close asked;
  -- Planned with nobody's claims, for no row.
  done := pg_catalog.set_config('request.jwt.claims', '{}', true);
  verdict := %2$s;
  is_asked := true;
  for i in 1 .. pg_catalog.cardinality(claims) loop
    begin
      done := pg_catalog.concat(pg_catalog.set_config('role', %3$L, true), pg_catalog.set_config('request.jwt.claims', claims[i], true),
        pg_catalog.set_config('request.user_id', users[i], true), pg_catalog.set_config('realtime.topic', topic, true));
      if set_read operator(pg_catalog.<>) set_of[i] then
        lines := %4$s;
        set_read := set_of[i];
        line := lines[1];
      end if;
      if pg_catalog.cardinality(lines) operator(pg_catalog.=) 1 then
        verdict := %2$s;
      else
        verdict := %5$s;
      end if;
    exception when others or assert_failure then
      verdict := null;
    end;
    verdicts := pg_catalog.array_append(verdicts, verdict);
  end loop;
  done := pg_catalog.set_config('platform.verdicts', verdicts::text, true);
end
$block$,
    rel::pg_catalog.regclass,
    -- A policy that takes the row as a whole has it as relation.*
    case when pg_catalog.strpos(expression, '.*') > 0 then platform.line_of(rel, expression, 'lines') else pg_catalog.format(
      'case when %s then ''1'' else ''0'' end from %s', expression, platform.judged_as(rel, pg_catalog.format('(select %s where is_asked)',
        (select pg_catalog.string_agg(pg_catalog.format('line.%I', a.attname), ', ' order by a.attnum)
           from pg_catalog.pg_attribute a where a.attrelid = rel and a.attnum > 0 and not a.attisdropped)))) end,
    who, platform.rows_in(rel, 'row_sets[set_of[i]]'), platform.line_of(rel, expression, 'lines'))
$$;

-- Prepares a statement that judges rows of a table for one caller. Runs as the project's owner, who may name all that policies
-- speak of, as their readers need not; nothing in it comes from outside the catalogue. What it may see is decided when it is run.
create or replace function platform.prepare_judge(rel oid, who text, command "char") returns void
language plpgsql volatile security definer
as $$
begin
  if exists (select from pg_catalog.pg_prepared_statements p where p.name operator(pg_catalog.=) 'plinth_judge') then
    deallocate plinth_judge;
  end if;
  -- The parameter makes plans for one time possible.
  execute pg_catalog.concat('prepare plinth_judge (integer) as select ', platform.line_of(
    rel, platform.policy_expression(rel, who, command), platform.rows_in(rel, 'pg_catalog.current_setting(''platform.rows'')')));
end
$$;

-- For each of many claims, a line of 1 and 0: which of its rows a caller with them may see; nothing where that cannot be said.
-- row_sets are arrays of rows, or in JSON where the table had other columns then; set_of says which of them each claims
-- are about.
create or replace function platform.judge(
  rel oid, who text, command "char", claims text[], users text[], row_sets text[], set_of integer[], topic text
) returns table (place integer, verdict text)
language plpgsql volatile
as $$
declare
  expression constant text := platform.policy_expression(rel, who, command);
  asked refcursor := 'plinth_asked';
begin
  -- Not for callers of the data plane.
  if current_user <> session_user then
    raise insufficient_privilege using message = 'judge is for the platform';
  end if;
  if expression is null then
    return;
  end if;
  -- Planned once for all, unless a function of the tenant's claims to be the same for all: a plan would keep what it said first.
  perform pg_catalog.set_config('plan_cache_mode', case when exists (
      select from pg_catalog.pg_proc f join pg_catalog.pg_roles o on o.oid operator(pg_catalog.=) f.proowner
       where f.oid operator(pg_catalog.>=) 16384::pg_catalog.oid and f.provolatile operator(pg_catalog.=) 'i' and not o.rolsuper
    ) then 'force_custom_plan' else 'force_generic_plan' end, true);
  begin
    open asked for select claims, users, row_sets, set_of, topic;
    perform pg_catalog.set_config('role', who, true);
    execute pg_catalog.format('do %L', platform.judging_block(rel, who, expression));
    return query select v.place::integer, v.verdict
      from pg_catalog.unnest(pg_catalog.current_setting('platform.verdicts')::text[]) with ordinality as v (verdict, place);
    return;
  exception when others or assert_failure then
    null; -- Its readers cannot name all that it speaks of.
  end;
  perform platform.prepare_judge(rel, who, command);
  for i in 1 .. pg_catalog.cardinality(claims) loop
    place := i;
    begin
      perform pg_catalog.set_config('role', who, true),
        pg_catalog.set_config('request.jwt.claims', claims[i], true),
        pg_catalog.set_config('request.user_id', users[i], true),
        pg_catalog.set_config('realtime.topic', topic, true),
        pg_catalog.set_config('platform.rows', row_sets[set_of[i]], true);
      execute 'execute plinth_judge(0)' into verdict;
    exception when others or assert_failure then
      verdict := null;
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
        'name', a.attname, 'type', pg_catalog.format_type(a.atttypid, null), 'isVirtual', a.attgenerated = 'v',
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
