// Builds the request context for the database, and checks access to the folders of users.
import type { RequestHead } from '#src/kernel/http/request.ts'
import type { Caller, RequestFacts } from '#src/tenancy/databases.ts'
import { checkBucketName, isInOwnFolder, isUserBucket } from './names.ts'
import { denied } from './refusals.ts'
import type { RequestContext } from './store.ts'

/** Policies can read the method, path, headers and `storage.operation` of the request. */
export function contextOf(
  caller: Caller,
  request: RequestHead,
  operation: string,
  more?: Partial<RequestFacts>,
): RequestContext {
  const facts = {
    method: request.method,
    path: request.path,
    headers: JSON.stringify(request.headers),
    setting: { name: 'storage.operation', value: `storage.${operation}` },
    ...more,
  }
  return { caller, facts }
}

/** The message is the same whether the folder exists or not, so that it does not reveal who has one. */
export function checkFolder({ role, userId }: Caller, bucket: string, name: string): void {
  if (!isUserBucket(bucket) || role === 'service_role') return
  if (role !== 'authenticated' || !isInOwnFolder(name, userId)) throw foreignFolder()
}

export function checkListed(caller: Caller, bucket: string, prefix = ''): void {
  checkBucketName(bucket)
  if (!isUserBucket(bucket) || prefix === '' || caller.role === 'service_role') return
  // A search prefix may be incomplete. It must be a prefix of the caller's folder name, or lie inside that folder.
  const own = `${caller.userId}/`
  if (caller.userId === '' || !(`${prefix}/`.startsWith(own) || own.startsWith(prefix))) throw foreignFolder()
}

const foreignFolder = () =>
  denied('In a bucket whose name begins with user-, each user can reach the folder of that user only')
