// The recovery of the whole instance to a time. The cluster before is kept as a directory that the operator can put back,
// but its backups and files are unknown to the recovered control database. So for some days the platform removes nothing
// that only the cluster before may name. The entry of the audit log exists in the control database of every release.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

const action = 'pitr.instance_cut_over'
/** How long the cluster before can be put back without a loss. */
export const wayBackDays = 7

/** Into the recovered control database. */
export const recordInstanceCutover = (control: Session, target: string) =>
  control.run(sql`
    insert into audit (actor_kind, actor_label, action, target) values ('system', 'platform', ${action}, ${target})`)

/** The entry of the audit log, which must not be pruned before. */
export const opensWayBack = sql`action = ${action} and at > now() - make_interval(days => ${wayBackDays})`

export const hasWayBack = async (control: Session): Promise<boolean> =>
  (await control.row(sql`select from audit where ${opensWayBack} limit 1`)) !== undefined
