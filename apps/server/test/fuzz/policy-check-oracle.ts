// The reference for visibility: a real table with only this row, and a plain SELECT by each subscriber. The other rows are
// restored afterwards.
import type { Session } from '#src/kernel/postgres/database.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import type { Subscriber } from './policy-check-cases.ts'
import { quote } from './policy-check-table.ts'

/** Run as superuser. */
export const oracleScript = `
  create schema oracle;
  -- To plan a select Postgres works out what it can of a policy: a claim that is no number raises there already, even in a
  -- condition that no row gets to. Such a select says nothing about its row.
  create function oracle.failure(tab text, who text, claims text, user_id text, state text) returns text
  language plpgsql as $$
  begin
    perform set_config('role', who, true), set_config('request.jwt.claims', claims, true),
      set_config('request.user_id', user_id, true);
    execute 'explain select count(*) from ' || tab;
    return state;
  exception when others then
    return case when sqlstate like '22%' then 'unplannable' else state end;
  end $$;
  create function oracle.check_alone(tab text, row_id int, roles text[], claims text[], users text[]) returns text[]
  language plpgsql as $$
  declare
    results text[] := '{}';
    seen bigint;
  begin
    begin
      execute 'delete from ' || tab || ' where id <> ' || row_id;
      execute 'select count(*) from ' || tab into seen;
      if seen <> 1 then raise 'the row % is not there', row_id; end if;
      for i in 1 .. cardinality(roles) loop
        begin
          perform set_config('role', roles[i], true), set_config('request.jwt.claims', claims[i], true),
            set_config('request.user_id', users[i], true);
          execute 'select count(*) from ' || tab into seen;
          results := results || case seen when 1 then 'shown' else 'hidden' end;
        exception when others then
          results := results || oracle.failure(tab, roles[i], claims[i], users[i], sqlstate);
        end;
        perform set_config('role', 'none', true);
      end loop;
      raise sqlstate 'UNDO0';
    exception when sqlstate 'UNDO0' then
      null;
    end;
    return results;
  end $$;`

/** 'shown', 'hidden', 'unplannable', or the SQLSTATE that the policies raised; by row, then by subscriber. */
export type Results = Map<number, string[]>

export interface PolicyCheckOracle {
  results(table: string, ids: readonly number[], subscribers: readonly Subscriber[]): Promise<Results>
  /** The rows in JSON, by id. */
  rows(table: string): Promise<Map<number, string>>
}

/** Needs a superuser session in which no trigger fires. */
export function policyCheckOracle(session: Session): PolicyCheckOracle {
  return {
    async results(table, ids, subscribers) {
      const found: Results = new Map()
      const of = (field: keyof Subscriber) => subscribers.map(each => each[field])
      for (const id of ids) {
        const answer = await session.row<{ results: string[] }>(
          sql`select oracle.check_alone(${`public.${quote(table)}`}, ${id}, ${of('role')}, ${of('claims')}, ${of('userId')}) as results`,
        )
        found.set(id, answer!.results)
      }
      return found
    },
    async rows(table) {
      const all = await session.rows<{ id: number; row: string }>(
        raw(`select id, row_to_json(t.*)::text as row from public.${quote(table)} t`),
      )
      return new Map(all.map(({ id, row }) => [id, row]))
    },
  }
}
