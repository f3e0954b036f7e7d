// SQL that makes sessions of the platform in a database wait at their login. They give up after ten seconds.

/** Until a session of the test lets them in. */
export const holdLogins = `
  create function hold_logins() returns event_trigger language plpgsql as $$ begin
    while current_setting('application_name') = 'plinth'
      and not exists (select from pg_locks where locktype = 'advisory' and objid = 4711)
    loop perform pg_sleep(0.02); end loop;
  end $$;
  create event trigger hold_logins on login execute function hold_logins()`

/** For as long as this session lives. */
export const letIn = 'select pg_advisory_lock(4711)'

/** The sessions that wait there, or in another function of a test. Poll it: between two sleeps they do not count. */
export const heldIn = (database: string) =>
  `select from pg_stat_activity where datname = '${database}' and wait_event = 'PgSleep'`
