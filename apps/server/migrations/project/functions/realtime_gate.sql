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

-- Prepares the statements by which rows of a table are judged, unless the session has them, and answers their names: for rows,
-- for rows in JSON, and for rows with nothing in the columns that no policy speaks of. Runs as the project's owner, who may name
-- all that policies speak of, as their readers need not; nothing in the statements comes from outside the catalogue. What they
-- may see is decided when they are run.
create or replace function platform.prepare_judge(rel oid, who text, command "char") returns text[]
language plpgsql volatile security definer
as $$
declare
  expression constant text := platform.policy_expression(rel, who, command);
  worked_out constant text := platform.worked_out(rel);
  relation record;
  bodies text[];
  names text[] := array[]::text[];
  body text;
  prepared text;
begin
  if expression is null then
    return null;
  end if;
  -- A plan does not hear of another type of a column, nor of another table with the same name. Columns of domains stay, since
  -- some of them take no null; a policy that takes the row as a whole has it as relation.*
  select pg_catalog.format('%I.%I', n.nspname, c.relname) as name, pg_catalog.quote_ident(c.relname) as alias,
         pg_catalog.concat(rel, ' ', pg_catalog.string_agg(pg_catalog.concat(a.atttypid, ' ', a.atttypmod), ',' order by a.attnum)) as shape,
         pg_catalog.string_agg(
           case when worked_out is not null or pg_catalog.strpos(expression, '.*') operator(pg_catalog.>) 0 or t.typtype operator(pg_catalog.=) 'd' or exists (
                  select from pg_catalog.pg_depend d join pg_catalog.pg_policy p on p.oid operator(pg_catalog.=) d.objid
                   where d.classid operator(pg_catalog.=) 'pg_catalog.pg_policy'::pg_catalog.regclass
                     and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
                     and p.polrelid operator(pg_catalog.=) rel and d.refobjid operator(pg_catalog.=) rel
                     and d.refobjsubid operator(pg_catalog.=) a.attnum)
                then pg_catalog.format('%I.%I', c.relname, a.attname) else 'null' end, ', ' order by a.attnum)
           filter (where not a.attisdropped) as needed
    into relation
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace
    join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) c.oid and a.attnum operator(pg_catalog.>) 0
    left join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) a.atttypid
   where c.oid operator(pg_catalog.=) rel
   group by n.nspname, c.relname;
  bodies := array[
    pg_catalog.format('pg_catalog.unnest(pg_catalog.current_setting(''platform.rows'')::%s[]) as %s', relation.name, relation.alias),
    pg_catalog.format('pg_catalog.json_populate_recordset(null::%s, pg_catalog.current_setting(''platform.rows'')::pg_catalog.json) as %s',
      relation.name, relation.alias),
    pg_catalog.format('select pg_catalog.array_agg(row(%s)::%s)::text
      from pg_catalog.unnest(pg_catalog.current_setting(''platform.rows'')::%2$s[]) as %s', relation.needed, relation.name, relation.alias)];
  for i in 1 .. 2 loop
    if worked_out is not null then
      bodies[i] := pg_catalog.format('(select %s from %s) as %s', worked_out, bodies[i], relation.alias);
    end if;
    bodies[i] := pg_catalog.format(
      'select pg_catalog.string_agg(case when %s then ''1'' else ''0'' end, '''') from %s', expression, bodies[i]);
  end loop;
  -- Policies that change leave statements behind.
  if (select pg_catalog.count(*) operator(pg_catalog.>) 60 from pg_catalog.pg_prepared_statements p
       where pg_catalog.starts_with(p.name, 'plinth_judge_')) then
    for prepared in
      select p.name from pg_catalog.pg_prepared_statements p where pg_catalog.starts_with(p.name, 'plinth_judge_')
    loop
      execute pg_catalog.format('deallocate %I', prepared);
    end loop;
  end if;
  foreach body in array bodies loop
    prepared := pg_catalog.concat('plinth_judge_', pg_catalog.md5(pg_catalog.concat(who, ' ', relation.shape, ' ', body)));
    if not exists (select from pg_catalog.pg_prepared_statements p where p.name operator(pg_catalog.=) prepared) then
      -- The parameter makes plans for one time possible.
      execute pg_catalog.format('prepare %I (integer) as %s', prepared, body);
    end if;
    names := pg_catalog.array_append(names, prepared);
  end loop;
  return names;
end
$$;

-- For each of many claims, a line of 1 and 0: which of its rows a caller with them may see. Each is a statement of its own
-- with its own claims; what one of them raises is its own.
-- row_sets are arrays of rows, or in JSON where the table had other columns then; set_of says which of them each claims
-- are about.
create or replace function platform.judge(
  rel oid, who text, command "char", claims text[], users text[], row_sets text[], set_of integer[], topic text
) returns table (place integer, verdict text, failure text)
language plpgsql volatile
as $$
declare
  prepared text[];
  run text;
begin
  -- Not for callers of the data plane.
  if current_user <> session_user then
    raise insufficient_privilege using message = 'judge is for the platform';
  end if;
  prepared := platform.prepare_judge(rel, who, command);
  if prepared is null then
    return;
  end if;
  -- Planned once for all, unless a function of the tenant's claims to be the same for all: a plan would keep what it said first.
  perform pg_catalog.set_config('plan_cache_mode', case when exists (
      select from pg_catalog.pg_proc f join pg_catalog.pg_roles o on o.oid operator(pg_catalog.=) f.proowner
       where f.oid operator(pg_catalog.>=) 16384::pg_catalog.oid and f.provolatile operator(pg_catalog.=) 'i' and not o.rolsuper
    ) then 'force_custom_plan' else 'force_generic_plan' end, true),
    pg_catalog.set_config('role', who, true);
  -- Rows are read again for each of many claims.
  if pg_catalog.cardinality(claims) operator(pg_catalog.>) (3 operator(pg_catalog.*) pg_catalog.cardinality(row_sets)) then
    for i in 1 .. pg_catalog.cardinality(row_sets) loop
      continue when pg_catalog.starts_with(row_sets[i], '[');
      begin
        perform pg_catalog.set_config('platform.rows', row_sets[i], true);
        execute pg_catalog.format('execute %I(0)', prepared[3]) into run;
        row_sets[i] := run;
      exception when others or assert_failure then
        null; -- Then with all that they hold.
      end;
    end loop;
  end if;
  for i in 1 .. pg_catalog.cardinality(claims) loop
    place := i;
    begin
      perform pg_catalog.set_config('role', who, true),
        pg_catalog.set_config('request.jwt.claims', claims[i], true),
        pg_catalog.set_config('request.user_id', users[i], true),
        pg_catalog.set_config('realtime.topic', topic, true),
        pg_catalog.set_config('platform.rows', row_sets[set_of[i]], true);
      run := pg_catalog.format('execute %I(0)', prepared[case when pg_catalog.starts_with(row_sets[set_of[i]], '[') then 2 else 1 end]);
      execute run into verdict;
      failure := null;
    exception when others or assert_failure then
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
