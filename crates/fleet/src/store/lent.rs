//! A connection that is taken out for some statements, and a transaction: of a file from sqlx's pool, of a server from
//! ours ([`super::pool`]).

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Transaction};

use super::pool::{self, Server};
use super::{Store, StoreResult};

/// Where connections come from.
pub(super) enum Pool {
    File(AnyPool),
    Server(Server),
}

/// A connection. Dropping it gives it back.
pub(super) enum Lent {
    File(PoolConnection<Any>),
    Server(pool::Lent),
}

/// A transaction. Dropped without [`Tx::commit`], nothing was written.
pub(super) enum Tx {
    File(Transaction<'static, Any>),
    Server(pool::Lent),
}

impl Pool {
    pub(super) async fn close(&self) {
        match self {
            Pool::File(pool) => pool.close().await,
            Pool::Server(server) => server.close().await,
        }
    }
}

impl Store {
    /// How full a server is now, in percent; a file always has room.
    pub(super) async fn fullness(&self) -> StoreResult<u8> {
        let Pool::Server(server) = &self.inner.pool else { return Ok(0) };
        server.crowd().look(&mut *server.lend().await?).await?;
        Ok(server.crowd().percent())
    }

    /// A connection for some statements, with whatever wait its server needs.
    pub(super) async fn connection(&self) -> StoreResult<Lent> {
        Ok(match &self.inner.pool {
            Pool::File(pool) => Lent::File(pool.acquire().await?),
            Pool::Server(server) => Lent::Server(server.lend().await?),
        })
    }
}

impl Tx {
    pub(super) async fn commit(self) -> StoreResult<()> {
        match self {
            Tx::File(tx) => tx.commit().await?,
            Tx::Server(lent) => lent.end("COMMIT").await?,
        }
        Ok(())
    }

    pub(super) async fn roll_back(self) -> StoreResult<()> {
        match self {
            Tx::File(tx) => tx.rollback().await?,
            Tx::Server(lent) => lent.end("ROLLBACK").await?,
        }
        Ok(())
    }
}

impl Deref for Lent {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        match self {
            Lent::File(connection) => connection,
            Lent::Server(connection) => connection,
        }
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        match self {
            Lent::File(connection) => connection,
            Lent::Server(connection) => connection,
        }
    }
}

impl Deref for Tx {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        match self {
            Tx::File(connection) => connection,
            Tx::Server(connection) => connection,
        }
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        match self {
            Tx::File(connection) => connection,
            Tx::Server(connection) => connection,
        }
    }
}
