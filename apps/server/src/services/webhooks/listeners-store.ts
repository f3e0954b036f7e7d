import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { SealedSecrets } from './secrets.ts'

/** Keeps the listener for some time. Undefined if there is none. */
export const renewListener = (control: Database, projectId: string, id: string, livesSeconds: number) =>
  control.row<SealedSecrets>(sql`
    update webhooks set expires_at = now() + make_interval(secs => ${livesSeconds})
     where project_id = ${projectId} and id = ${id} and url is null
    returning id, project_id, secret, previous_secret`)

/** Forgets deliveries that were read, up to the given id. Others with a lower id may have been committed since. */
export const forgetRead = (control: Database, id: string, upTo: string) =>
  control.run(sql`
    delete from webhook_queue where webhook_id = ${id} and id <= ${upTo}::uuid and leased_until is not null`)

export interface StreamedRow {
  id: string
  event: string
  payload: string
}

/** Of the payloads that are read at once. The last one may exceed it. */
const maxBytes = 1_000_000

/** The next deliveries. Those that are not acknowledged are returned again after the lease. */
export const readNext = async (control: Database, id: string, limit: number, leaseSeconds: number) =>
  (
    await control.rows<StreamedRow>(sql`
      update webhook_queue set leased_until = now() + make_interval(secs => ${leaseSeconds})
       where webhook_id = ${id} and id in (
         select id from (
           select id, sum(bytes) over (order by id) - bytes as earlier_bytes from (
             select id, octet_length(payload) as bytes from webhook_queue
              where webhook_id = ${id} and (leased_until is null or leased_until <= now())
              order by id limit ${limit}) next) summed
          where earlier_bytes < ${maxBytes})
      returning id, event, payload`)
  ).sort((left, right) => (left.id < right.id ? -1 : 1))

export const deleteListener = (session: Session, projectId: string, id: string) =>
  session.run(sql`delete from webhooks where project_id = ${projectId} and id = ${id} and url is null`)

/** Listeners whose command line is gone, in any order, so that one that cannot be removed delays no other. */
export const listExpired = (control: Database, limit: number) =>
  control.rows<{ id: string; project_id: string }>(sql`
    select id, project_id from webhooks where expires_at < now() order by random() limit ${limit}`)
